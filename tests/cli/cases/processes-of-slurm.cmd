PMIX_RANK=1 SLURM_STEP_NUM_TASKS=4 exg inspect nothing.pt2; SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 exg inspect nothing.pt2
