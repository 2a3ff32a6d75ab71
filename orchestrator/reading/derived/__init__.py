"""Numbers that follow from the rows a stage left: balanced accuracies, how many images a rate is of."""
