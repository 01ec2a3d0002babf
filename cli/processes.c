/* processes.c - this process among those that mpirun started. */
#include "cli/cli.h"

#include <stdlib.h>

/* Open MPI and MPICH tell a process so; so does Slurm, of the step that srun --mpi=pmix started.
 * What it says of a step elsewhere is about the batch script, too. */
static uint32_t job_number(const char *open_mpi, const char *pmi, const char *slurm, uint32_t none)
{
    const char *text = getenv(open_mpi);
    long number;

    text = text != NULL ? text : getenv(pmi);
    text = text != NULL || getenv("PMIX_RANK") == NULL ? text : getenv(slurm);
    number = text == NULL ? (long)none : strtol(text, NULL, 10);
    return number < 0 || number > 65535 ? none : (uint32_t)number;
}

uint32_t cli_process_count(void)
{
    uint32_t count = job_number("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", 1);

    return count < 1 ? 1 : count;
}

uint32_t cli_process_rank(void)
{
    return cli_process_count() > 1 ? job_number("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", 0)
                                   : 0;
}
