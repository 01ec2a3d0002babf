/* first.cpp - first.c in C++: a program is opened, checked, and run on zeros. */
#include <cstdio>
#include <exg/exg.hpp>

int main(int argc, char **argv)
{
    const float x[3 * 8] = {}; /* x: f32[3, 8] */
    auto program = exg::program::open(argc > 1 ? argv[1] : "model.pt2");

    if (!program) {
        std::fprintf(stderr, "%s: %s\n%s\n", program.error().code(), program.error().message(),
                     program.error().fix());
        return exg_status_exit_code(program.error().status());
    }
    auto session = program->session();
    auto run = session ? session->run({{"x", exg::tensor_of(x, {3, 8})}}) : session.error();

    if (!run) {
        std::fprintf(stderr, "%s: %s\n", run.error().code(), run.error().message());
        return exg_status_exit_code(run.error().status());
    }
    std::printf("%g\n", static_cast<double>(exg::data_of<float>(session->output(0))[0]));
}
