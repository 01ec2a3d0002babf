/* Arenas: what they hand out, and what they refuse. */
#include <exg/memory.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void copies_and_texts_are_whole(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    const int numbers[] = {1, 2, 3};

    (void)state;
    assert_string_equal(exg_arena_strdup(arena, "weight"), "weight");
    assert_null(exg_arena_strdup(arena, NULL));
    assert_string_equal(exg_arena_strndup(arena, "weight", 3), "wei");
    assert_string_equal(exg_arena_strndup(arena, "weight", 0), "");
    assert_string_equal(exg_arena_printf(arena, "%s[%d]", "nodes", 12), "nodes[12]");
    assert_memory_equal(exg_arena_memdup(arena, numbers, 3, sizeof(int)), numbers, sizeof(numbers));
    exg_arena_destroy(arena);
}

static void an_array_grows_and_keeps_its_items(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    uint32_t *items = NULL;
    uint32_t capacity = 0;

    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(exg_arena_reserve(arena, &items, i, &capacity, sizeof(*items)));
        items[i] = 7 * i;
    }
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(items[i], 7 * i);
    }
    exg_arena_destroy(arena);
}

static void past_the_budget_there_is_nothing(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, 64);
    uint32_t *items = NULL;
    uint32_t capacity = 0;
    char large[100];

    (void)state;
    memset(large, 'x', sizeof(large));
    assert_null(exg_arena_strndup(arena, large, sizeof(large)));
    assert_null(exg_arena_memdup(arena, large, sizeof(large), 1));
    assert_null(exg_arena_memdup(arena, large, SIZE_MAX, 2));
    assert_null(exg_arena_printf(arena, "%100d", 1));
    assert_false(exg_arena_reserve(arena, &items, 0, &capacity, 1000));
    assert_string_equal(exg_arena_strdup(arena, "small"), "small"); /* what fits still does */
    exg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_and_texts_are_whole),
        cmocka_unit_test(an_array_grows_and_keeps_its_items),
        cmocka_unit_test(past_the_budget_there_is_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
