"""Number formats and the only rounding in Ridgeline."""
