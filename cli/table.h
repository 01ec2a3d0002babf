/* table.h - command.def and option.def, as data, for what is written of them: pages of the manual,
 * completions. */
#ifndef EXG_CLI_TABLE_H
#define EXG_CLI_TABLE_H

#include "cli/cli.h"

typedef struct cli_command_row {
    const char *name;
    char letter;
    const char *arguments, *summary, *examples;
} cli_command_row;

typedef struct cli_option_row {
    const char *name, *argument, *commands, *needs, *help; /* argument NULL: a flag */
    bool is_list;
} cli_option_row;

extern const cli_command_row cli_commands[]; /* the last has no name */
extern const cli_option_row cli_options[];

/* Does this command take the option? */
bool cli_takes(const cli_command_row *command, const cli_option_row *option);

/* The page of the manual, in man(7): of the command, or of exg where it is NULL. */
exg_status cli_put_manual(FILE *out, const char *command, exg_error *err);

#endif
