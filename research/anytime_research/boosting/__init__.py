"""Theory of functional gradient descent: projections of gradients on weak learners, descent, and its rates."""
