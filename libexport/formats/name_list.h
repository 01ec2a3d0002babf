/* name_list.h - names in a message, which has no room for all: "a, b, ...", and how many. */
#ifndef EXG_LIBEXPORT_FORMATS_NAME_LIST_H
#define EXG_LIBEXPORT_FORMATS_NAME_LIST_H

#include <exg/text.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct exg_name_list {
    exg_text text;
    size_t room; /* bytes, but for one name that is longer */
    uint32_t count;
    bool is_full;
} exg_name_list;

#define EXG_NAME_LIST_EMPTY(room) ((exg_name_list){EXG_TEXT_EMPTY, (room), 0, false})

static inline void exg_name_list_add(exg_name_list *list, const char *name)
{
    bool fits = list->count == 0 || list->text.length + strlen(name) <= list->room;

    list->count++;
    if (!list->is_full) {
        exg_text_puts(&list->text, list->count > 1 ? ", " : "");
        exg_text_puts(&list->text, fits ? name : "...");
        list->is_full = !fits;
    }
}

#endif
