/* store.c - a store without memory. All else of it: tests/cli/store.py. */
#include "tests/export/exg_folder.h"
#include "tests/export/refusal.h"

#include <exg/store.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#ifdef REFUSES_MEMORY
static exg_status add(const char *name, void *user, exg_error *err)
{
    exg_store *store = NULL;

    (void)name;
    (void)user;
    EXG_TRY(exg_store_open(in_folder("store"), true, &store, err));
    exg_status status = exg_store_add(store, "tied", "fixtures/tied.pt2", 1, NULL, err);

    exg_store_close(store);
    return status;
}

static exg_status look(const char *name, void *user, exg_error *err)
{
    exg_store *store = NULL;
    exg_store_list *list = NULL;
    exg_status status;

    (void)name;
    (void)user;
    EXG_TRY(exg_store_open(in_folder("store"), false, &store, err));
    status = exg_store_names(store, &list, err);
    exg_store_list_free(list);
    status = status == EXG_OK ? exg_store_export(store, "tied", in_folder("out"), false, NULL, err)
                              : status;
    status = status == EXG_OK ? exg_store_verify(store, 1, NULL, NULL, err) : status;
    status = status == EXG_OK ? exg_store_collect(store, NULL, err) : status;
    exg_store_close(store);
    return status;
}

static void test_without_memory(void **state)
{
    exg_store *store = NULL;
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    refuse_each(add, "add", NULL, 1);
    refuse_each(look, "look", NULL, 1);
    assert_int_equal(exg_store_open(in_folder("store"), false, &store, &err), EXG_OK);
    assert_int_equal(exg_store_verify(store, 0, NULL, NULL, &err), EXG_OK);
    assert_int_equal(exg_store_remove(store, "tied", &err), EXG_OK);
    exg_store_close(store);
}
#else
static void test_without_memory(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_without_memory)};

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
