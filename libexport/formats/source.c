/* source.c - what of memory a file may take. */
#include "libexport/formats/format.h"

#include "libexport/base/checked.h"

uint64_t exg_default_budget(uint64_t length)
{
    uint64_t budget;

    if (!exg_mul_u64(length, 64, &budget) || !exg_add_u64(budget, 64u << 20, &budget)) {
        return UINT64_MAX - 1;
    }
    return budget;
}

void exg_source_limit(exg_source *source, exg_open_options options)
{
    source->allocator = options.allocator;
    source->budget =
        options.memory_budget != 0 ? options.memory_budget : exg_default_budget(source->length);
}
