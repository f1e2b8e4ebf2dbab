"""What each operator means and costs."""
