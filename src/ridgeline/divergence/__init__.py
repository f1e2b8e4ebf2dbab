"""Where an executed program first leaves what it should compute: layer, instruction, value."""
