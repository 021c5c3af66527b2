"""What this machine enforces: `doctor`, the probe, and the self-test."""
