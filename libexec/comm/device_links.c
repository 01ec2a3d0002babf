/* device_links.c - the devices of ranks joined along the dims of a mesh. */
#include "libexec/comm/grid.h"
#include "libexec/device/device.h"

#include <stdio.h>
#include <string.h>

/* Adds what a dim goes through, unless it is there. */
static void note_way(char *through, const char *text)
{
    size_t used = strlen(through);

    if (strstr(through, text) == NULL) {
        (void)snprintf(through + used, EXG_THROUGH_TEXT - used, "%s%s", used == 0 ? "" : ", ",
                       text);
    }
}

exg_status exg_grid_join(exg_grid *grid, exg_accelerator *device, char *through, exg_error *err)
{
    const exg_device_table *table = device->table;

    through[0] = '\0';
    grid->device = device;
    for (uint32_t d = 0; d < grid->ndim; d++) {
        char why[EXG_THROUGH_TEXT];
        exg_status status;

        if (grid->dims[d]->size == 1) { /* nobody to meet */
            continue;
        }
        if (table->join == NULL) {
            note_way(through, "the host");
            continue;
        }
        status = table->join(device, grid->dims[d], &grid->links[d], err);
        if (status == EXG_UNSUPPORTED) {
            (void)snprintf(why, sizeof(why), "the host (%.200s)", err == NULL ? "" : err->message);
            exg_error_clear(err);
            note_way(through, why);
        } else if (status != EXG_OK) {
            exg_grid_abort(grid, status);
            return exg_error_within(err, status, "rank %u, where devices are joined", grid->rank);
        } else {
            note_way(through, grid->links[d]->name);
        }
    }
    return EXG_OK;
}

void exg_grid_leave(exg_grid *grid)
{
    for (uint32_t d = 0; d < grid->ndim; d++) {
        if (grid->links[d] != NULL) {
            grid->device->table->leave(grid->device, grid->links[d]);
            grid->links[d] = NULL;
        }
    }
}
