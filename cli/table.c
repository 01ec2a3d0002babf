/* table.c - the tables, as data. */
#include "cli/table.h"

#include <string.h>

const cli_command_row cli_commands[] = {
#define EXG_COMMAND(name, letter, processes, arguments, summary, examples)                         \
    {#name, letter, arguments, summary, examples},
#include "cli/command.def"
#undef EXG_COMMAND
    {NULL, '\0', NULL, NULL, NULL}};

const cli_option_row cli_options[] = {
#define EXG_FLAG(field, name, commands, needs, help) {name, NULL, commands, needs, help, false},
#define EXG_TEXT_OPTION(field, name, argument, commands, needs, help)                              \
    {name, argument, commands, needs, help, false},
#define EXG_LIST_OPTION(field, name, argument, commands, needs, help)                              \
    {name, argument, commands, needs, help, true},
#define EXG_NUMBER_OPTION(field, name, argument, commands, needs, help)                            \
    {name, argument, commands, needs, help, false},
#define EXG_WHOLE_OPTION(field, name, least, most, commands, needs, help)                          \
    {name, "N", commands, needs, help, false},
#include "cli/option.def"
#undef EXG_FLAG
#undef EXG_TEXT_OPTION
#undef EXG_LIST_OPTION
#undef EXG_NUMBER_OPTION
#undef EXG_WHOLE_OPTION
    {NULL, NULL, NULL, NULL, NULL, false}};

bool cli_takes(const cli_command_row *command, const cli_option_row *option)
{
    return strchr(option->commands, command->letter) != NULL;
}
