"""Models, and their encoders, bridges, decoders and readouts."""
