/* processes.c - this process among those that mpirun started. */
#include "cli/cli.h"

#include <stdlib.h>

/* Open MPI, or MPICH and Slurm, tell a process so. */
static uint32_t job_number(const char *open_mpi, const char *pmi, uint32_t none)
{
    const char *text = getenv(open_mpi) != NULL ? getenv(open_mpi) : getenv(pmi);
    long number = text == NULL ? (long)none : strtol(text, NULL, 10);

    return number < 0 || number > 65535 ? none : (uint32_t)number;
}

uint32_t cli_process_count(void)
{
    uint32_t count = job_number("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", 1);

    return count < 1 ? 1 : count;
}

uint32_t cli_process_rank(void)
{
    return cli_process_count() > 1 ? job_number("OMPI_COMM_WORLD_RANK", "PMI_RANK", 0) : 0;
}
