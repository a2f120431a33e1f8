mod replicated_sim;
