"""Generated hardware on an FPGA: synthesis, place and route, and what they say."""
