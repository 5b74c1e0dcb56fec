"""Encoders, bridges, decoders, and the models they make up."""
