/* dcp_ranks.c - the names of what ranks say. */
#include "libexport/formats/pt2/dcp_ranks.h"

#include <dirent.h>
#include <stdio.h>

int exg_dcp_rank_of(const char *name)
{
    int rank = -1;
    int end = 0;

    return sscanf(name, "__%6d.metadata%n", &rank, &end) == 1 && end > 0 && name[end] == '\0' &&
                   name[2] >= '0' && name[2] <= '9'
               ? rank
               : -1;
}

void exg_dcp_rank_name(int rank, char name[EXG_DCP_RANK_BYTES])
{
    snprintf(name, EXG_DCP_RANK_BYTES, "__%d.metadata", rank);
}

exg_status exg_dcp_count_ranks(const char *path, int *count, exg_error *err)
{
    DIR *folder = opendir(path[0] == '\0' ? "." : path);
    const struct dirent *file;

    *count = 0;
    if (folder == NULL) {
        return EXG_FAIL(err, IO, "IO-OPEN", "cannot open folder %s", path);
    }
    while ((file = readdir(folder)) != NULL) {
        int rank = exg_dcp_rank_of(file->d_name);

        *count = rank >= *count ? rank + 1 : *count;
    }
    closedir(folder);
    return EXG_OK;
}
