"""Models: what there is to learn, and what one does with a labelled example."""
