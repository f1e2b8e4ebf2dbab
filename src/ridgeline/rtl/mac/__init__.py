"""MAC formats: what one element of the array multiplies and adds, one module a format."""
