"""How long products of matrices take on a chip of the catalogue, without running them."""
