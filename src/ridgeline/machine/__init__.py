"""What a machine is and does: description, instructions, execution, simulation, checks."""
