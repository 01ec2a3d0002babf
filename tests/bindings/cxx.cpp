/* cxx.cpp - exg.hpp: what it owns, what it gives, and faults. */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exg/exg.hpp>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                   \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

static exg::result<exg::session> session_of(const char *path)
{
    auto program = exg::program::open(path); /* goes: the session keeps it */

    return program ? program->session() : program.error();
}

static void faults(const char *bad)
{
    auto none = exg::program::open("none.pt2");

    CHECK(!none && std::strcmp(none.error().code(), "IO-OPEN") == 0);
    CHECK(none.error().status() == EXG_IO && none.error().message()[0] != '\0');
    auto broken = exg::program::open(bad);

    CHECK(!broken && std::strcmp(broken.error().code(), "NOD-017") == 0);
    CHECK(broken.error().where()[0] != '\0' && broken.error().fix()[0] != '\0');
    CHECK(!exg::weights::open("none.safetensors"));
}

static void runs(const char *path, const char *inputs, const char *expected)
{
    auto given = exg::weights::open(inputs);
    auto wanted = exg::weights::open(expected);

    CHECK(given && wanted && given->size() == 1);
    auto x = given->read<float>((*given)[0]);
    auto want = wanted->read<float>((*wanted)[0]);

    CHECK(x && want && x->size() == 24 && want->size() == 12);
    CHECK(!given->read<double>((*given)[0]));
    auto session = session_of(path);

    CHECK(session);
    auto moved = std::move(session.value());
    auto run = moved.run({{"x", exg::tensor_of(x->data(), {3, 8})}});

    CHECK(run && moved.output_count() == 1);
    const exg_tensor &y = moved.output(0);
    const float *got = exg::data_of<float>(y);

    CHECK(got != nullptr && y.rank == 2 && y.sizes[0] == 3 && y.sizes[1] == 4);
    CHECK(exg::data_of<double>(y) == nullptr && moved.output(1).data == nullptr);
    for (size_t i = 0; i < want->size(); i++) {
        CHECK(std::fabs(got[i] - (*want)[i]) < 1e-5f);
    }
    run = moved.run({{"x", exg::tensor_of(x->data(), {4, 6})}});
    CHECK(!run && std::strcmp(run.error().code(), "INP-004") == 0);
    run = moved.run(
        {{"x", exg::tensor_of(x->data(), {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})}});
    CHECK(!run);
    run = moved.run({{"x", int64_t{3}}});
    CHECK(!run);
    run = moved.run(std::vector<exg::input>{});
    CHECK(!run && std::strcmp(run.error().code(), "INP-002") == 0);
}

static void weights(const char *path, const char *out)
{
    auto program = exg::program::open(path);
    auto tensors = program->weights();

    CHECK(tensors.size() == 4 && tensors.find("up.weight") != nullptr &&
          tensors.find("none") == nullptr);
    auto up = tensors.read<float>(*tensors.find("up.weight"));

    CHECK(up && up->size() == 16 * 8);
    CHECK(program->save(out));
    auto again = exg::program::open(out);

    CHECK(again && again->get()->graph->node_count == program->get()->graph->node_count);
    CHECK(!program->save("/none/none.exg"));
}

int main(int argc, char **argv)
{
    CHECK(argc == 6);
    faults(argv[4]);
    runs(argv[1], argv[2], argv[3]);
    weights(argv[1], argv[5]);
    std::puts("right");
}
