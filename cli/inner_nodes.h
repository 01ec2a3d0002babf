/* inner_nodes.h - values inside of branches, loops and graphs that run where they stand. */
#ifndef EXG_CLI_INNER_NODES_H
#define EXG_CLI_INNER_NODES_H

#include "cli/cli.h"

#define CLI_WATCHED_MARK "_watched_" /* behind the name of a graph whose nodes are */

/* Is the value of this path, "cond/true_graph_0/sin", wanted? */
typedef bool cli_path_fn(void *user, const char *path);

/* In the inner graphs of `node`, one of the root's, every tensor that is wanted is watched from now
 * on; `before` values of the root come before them. The node `repeats` for each example inside of
 * torch.vmap. Changes p->program, which is to be verified again, and makes *inner where it is
 * NULL. */
exg_status cli_inner_nodes_watch(const cli_call *call, const exg_node *node, bool repeats,
                                 cli_program *p, cli_path_fn *is_wanted, void *user,
                                 uint32_t before, cli_inner_nodes **inner, exg_error *err);

/* Before that: what watches is one of the operators. */
exg_status cli_inner_nodes_register(cli_inner_nodes *inner, exg_operators *operators,
                                    exg_error *err);

void cli_inner_nodes_forget(cli_inner_nodes *inner); /* what was kept: before a run */
void cli_inner_nodes_free(cli_inner_nodes *inner);   /* NULL is allowed */

uint32_t cli_inner_nodes_count(const cli_inner_nodes *inner); /* watched */

/* What was kept of the last run, lent until the next; `inner` may be NULL. */
const cli_node_value *cli_inner_nodes_kept(const cli_inner_nodes *inner, uint32_t *count);

/* Is it watched, whether or not it came to it: "cond/true_graph_0/sin", "map/body_graph_0/add@3"?
 */
bool cli_inner_nodes_have(const cli_inner_nodes *inner, const char *name);
bool cli_is_of_path(const char *name, const char *path); /* the path, or "path@3" */

/* What values of an inner graph of `node` have before their names: "cond/true_graph_0/". In the
 * arena; NULL: out of memory. */
char *cli_inner_path(exg_arena *arena, const char *path, const exg_node *node,
                     const exg_graph_argument *graph);

#endif
