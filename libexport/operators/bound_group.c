/* bound_group.c - "line 1 of 4 ranks": no name of a group in PyTorch has blanks. */
#include "libexport/operators/bound_group.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void exg_bound_group_write(const exg_bound_group *group, char *text)
{
    (void)snprintf(text, EXG_BOUND_GROUP_TEXT, "line %" PRIu32 " of %" PRIu32 " ranks", group->line,
                   group->size);
}

uint32_t exg_operator_parameter(const exg_operator *op, const char *name)
{
    uint32_t i = 0;

    while (i < op->schema->argument_count && strcmp(op->schema->arguments[i].name, name) != 0) {
        i++;
    }
    return i;
}

bool exg_operator_has_group(const exg_operator *op)
{
    uint32_t count = op->schema->argument_count;

    return op->registered == NULL && /* a library's may call what it likes so */
           (exg_operator_parameter(op, "group_name") < count ||
            (exg_operator_parameter(op, "ranks") < count &&
             exg_operator_parameter(op, "group_size") < count));
}

bool exg_operator_meets_ranks(const exg_operator *op)
{
    return exg_operator_has_group(op) || strcmp(op->schema->name, "wait_tensor") == 0;
}

bool exg_bound_group_read(const char *text, exg_bound_group *group)
{
    char again[EXG_BOUND_GROUP_TEXT];

    if (sscanf(text, "line %" SCNu32 " of %" SCNu32 " ranks", &group->line, &group->size) != 2) {
        return false;
    }
    exg_bound_group_write(group, again);
    return strcmp(again, text) == 0 && group->size > 0;
}
