/* globals.c - options of every command (global.def), and what they change: notes, colour, width. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Of this process. */
static struct {
    bool is_quiet, is_verbose;
    enum { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } color;
} globals;

static bool is_word(const char *word, const char *a, const char *b)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

static exg_status take_color(const char *word, exg_error *err)
{
    static const char *const names[] = {"auto", "always", "never"};

    for (int i = 0; i < 3; i++) {
        if (strcmp(word, names[i]) == 0) {
            globals.color = i == 0 ? COLOR_AUTO : i == 1 ? COLOR_ALWAYS : COLOR_NEVER;
            return EXG_OK;
        }
    }
    return exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-001", "--color '%s'", word),
                         "--color takes auto, always or never");
}

exg_status cli_take_globals(int *argc, char **argv, exg_error *err)
{
    int kept = 1;
    bool has_options = true;
    exg_status status = EXG_OK;

    for (int i = 1; i < *argc; i++) {
        has_options = has_options && strcmp(argv[i], "--") != 0;
        if (has_options && is_word(argv[i], "-q", "--quiet")) {
            globals.is_quiet = true;
        } else if (has_options && is_word(argv[i], "-v", "--verbose")) {
            globals.is_verbose = true;
        } else if (has_options && strncmp(argv[i], "--color=", 8) == 0) {
            status = status == EXG_OK ? take_color(argv[i] + 8, err) : status;
        } else if (has_options && strcmp(argv[i], "--color") == 0 && i + 1 < *argc) {
            status = status == EXG_OK ? take_color(argv[++i], err) : status;
        } else {
            argv[kept++] = argv[i];
        }
    }
    argv[kept] = NULL;
    *argc = kept;
    return status;
}

bool cli_is_quiet(void)
{
    return globals.is_quiet;
}

bool cli_is_verbose(void)
{
    return globals.is_verbose;
}

/* As https://no-color.org has it. */
static bool has_color(FILE *out)
{
    const char *no_color = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    const int number = out == NULL ? -1 : fileno(out);

    if (globals.color != COLOR_AUTO) {
        return globals.color == COLOR_ALWAYS;
    }
    return (no_color == NULL || no_color[0] == '\0') && number >= 0 && isatty(number) != 0 &&
           terminal != NULL && strcmp(terminal, "dumb") != 0;
}

const char *cli_paint(FILE *out, cli_color color)
{
    static const char *const codes[] = {
        [CLI_COLOR_NONE] = "\033[0m",       [CLI_COLOR_ERROR] = "\033[1;31m",
        [CLI_COLOR_WARNING] = "\033[1;33m", [CLI_COLOR_NOTE] = "\033[1;36m",
        [CLI_COLOR_FIX] = "\033[32m",
    };

    return has_color(out) ? codes[color] : "";
}

uint32_t cli_width(FILE *out)
{
    const char *columns =
        getenv("COLUMNS"); /* of terminals that do not say it, or say it wrongly */
    struct winsize size = {0};
    long set = columns == NULL ? 0 : strtol(columns, NULL, 10);

    if (isatty(fileno(out)) == 0) {
        return 0;
    }
    if (set > 0 && set < 100000) {
        return (uint32_t)set;
    }
    return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* ---- nearly the same ------------------------------------------------------------------------- */

#define WORD_MAX  64
#define BEGINNING 5 /* letters that may be the beginning of a name: "--prefix" */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Letters put in, left out, changed, or two that changed places (Damerau, Levenshtein). */
static uint32_t distance(const char *a, const char *b)
{
    const size_t n = strlen(a);
    const size_t m = strlen(b);
    uint32_t rows[3][WORD_MAX + 1]; /* of i - 2, i - 1 and i letters of a */

    for (size_t j = 0; j <= m; j++) {
        rows[0][j] = rows[1][j] = (uint32_t)j;
    }
    for (size_t i = 1; i <= n; i++) {
        rows[2][0] = (uint32_t)i;
        for (size_t j = 1; j <= m; j++) {
            rows[2][j] = least(least(rows[1][j], rows[2][j - 1]) + 1,
                               rows[1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                rows[2][j] = least(rows[2][j], rows[0][j - 2] + 1);
            }
        }
        memcpy(rows[0], rows[1], sizeof(rows[0]));
        memcpy(rows[1], rows[2], sizeof(rows[1]));
    }
    return rows[1][m];
}

void cli_nearest_begin(cli_nearest *nearest, const char *word)
{
    *nearest = (cli_nearest){.word = word, .distance = 1 + (uint32_t)strlen(word) / 3};
}

void cli_nearest_offer(cli_nearest *nearest, const char *name)
{
    if (strlen(nearest->word) <= WORD_MAX && strlen(name) <= WORD_MAX) {
        size_t length = strlen(nearest->word);
        bool begins = length >= BEGINNING && strncmp(nearest->word, name, length) == 0;
        uint32_t apart = begins ? 1 : distance(nearest->word, name);

        if (apart < nearest->distance) {
            nearest->distance = apart;
            nearest->name = name;
        }
    }
}
