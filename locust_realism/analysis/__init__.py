"""What it means: pure functions of arrays and launch logs."""
