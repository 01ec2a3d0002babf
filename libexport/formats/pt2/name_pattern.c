/* name_pattern.c - all ways to read a pattern at once: which of its items may come next. */
#include "libexport/formats/pt2/name_pattern.h"

#include <stdint.h>
#include <string.h>

#define ITEMS_MAX 512

typedef enum item_kind { ITEM_CHARACTER, ITEM_ANY, ITEM_DIGIT, ITEM_WORD } item_kind;

typedef struct item {
    item_kind kind;
    char character;
    bool may_miss, repeats;
} item;

typedef struct pattern {
    item items[ITEMS_MAX];
    uint32_t count;
    bool to_end;
} pattern;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* What stands at *text; false: nothing that is known. */
static bool read_item(const char **text, item *made)
{
    const char *at = *text;

    *made = (item){.kind = *at == '.' ? ITEM_ANY : ITEM_CHARACTER, .character = *at};
    if (*at == '\\') {
        at++;
        made->kind = *at == 'd' ? ITEM_DIGIT : *at == 'w' ? ITEM_WORD : ITEM_CHARACTER;
        made->character = *at;
        if (*at == '\0' || (made->kind == ITEM_CHARACTER && is_word(*at) && *at != '_')) {
            return false;
        }
    } else if (strchr("()[]{}|*+?^$", *at) != NULL) {
        return false;
    }
    *text = at + 1;
    return true;
}

static bool add_item(pattern *p, item added)
{
    if (p->count == ITEMS_MAX) {
        return false;
    }
    p->items[p->count++] = added;
    return true;
}

static bool parse(const char *text, pattern *p)
{
    p->count = 0;
    p->to_end = false;
    text += *text == '^';
    while (*text != '\0') {
        item next;

        if (strcmp(text, "$") == 0) {
            p->to_end = true;
            return true;
        }
        if (!read_item(&text, &next)) {
            return false;
        }
        if (*text == '+' && !add_item(p, next)) { /* one, and then any number */
            return false;
        }
        next.repeats = *text == '*' || *text == '+';
        next.may_miss = next.repeats || *text == '?';
        text += next.may_miss;
        if (!add_item(p, next)) {
            return false;
        }
    }
    return true;
}

static bool takes(const item *i, char c)
{
    switch (i->kind) {
    case ITEM_ANY:
        return c != '\n';
    case ITEM_DIGIT:
        return is_digit(c);
    case ITEM_WORD:
        return is_word(c);
    case ITEM_CHARACTER:
        break;
    }
    return c == i->character;
}

/* Behind an item that may miss comes the next, too. */
static void pass_missing(const pattern *p, bool *next)
{
    for (uint32_t i = 0; i < p->count; i++) {
        next[i + 1] = next[i + 1] || (next[i] && p->items[i].may_miss);
    }
}

bool exg_name_pattern_is_known(const char *text)
{
    pattern p;

    return parse(text, &p);
}

/* Most patterns are names, and most names other ones. */
static bool begins_otherwise(const char *text, const char *name)
{
    text += *text == '^';
    for (; *name != '\0' && (is_word(*text) || *text == '-'); text++, name++) {
        if (*text != *name) {
            return text[1] != '*' && text[1] != '?';
        }
    }
    return false;
}

bool exg_name_pattern_fits(const char *text, const char *name)
{
    bool next[ITEMS_MAX + 1] = {true};
    bool alive = true;
    pattern p;

    if (begins_otherwise(text, name) || !parse(text, &p)) {
        return false;
    }
    pass_missing(&p, next);
    for (; *name != '\0' && alive && (p.to_end || !next[p.count]); name++) {
        alive = false;
        for (uint32_t i = p.count + 1; i-- > 0;) { /* from the end: next[i + 1] is read already */
            bool here = i < p.count && next[i] && takes(&p.items[i], *name);
            bool before = i > 0 && next[i - 1] && takes(&p.items[i - 1], *name);

            next[i] = (here && p.items[i].repeats) || before;
            alive = alive || next[i];
        }
        pass_missing(&p, next);
    }
    return next[p.count];
}
