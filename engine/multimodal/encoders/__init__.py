"""The part of each family that runs its encoders."""
