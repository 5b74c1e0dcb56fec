"""Training: the training loop, optimizers, learning rate schedules, checkpoints and run folders."""
