"""What a run's report says, measured from the files that the run left."""
