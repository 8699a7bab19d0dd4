"""Learning rate schedules by kind; ``rushlight.optim.lr_scheduler`` has them all."""
