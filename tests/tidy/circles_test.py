"""The check finds a circle that is planted, and nothing else.

  circles_test.py CC NM
"""
import json, os, subprocess, sys, tempfile

CC, NM = sys.argv[1:]
CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "circles.py")
SOURCES = {
    "base/a.c": "int b(void); int a(void) { return b(); }",
    "base/b.c": "int c(void); extern int d; int b(void) { return c() + d; }",
    "base/c.c": "int a(void); int c(void) { return a(); }",
    "base/d.c": "int d = 1;",
    "base/e.c": "int a(void); int e(void) { return a(); }",
}
RING = "".join(f"  libexport/base/{name}.c\n" for name in "abc")
REASON = "circle a ring\n"
fails = 0


def expect(what, build, text, code, *says):
    global fails
    path = os.path.join(build, "circles.txt")
    with open(path, "w") as out:
        out.write(text)
    done = subprocess.run([sys.executable, CHECK, NM, build, path], capture_output=True, text=True)
    told = done.stdout + done.stderr
    if (done.returncode != 0) != code or not all(word in told for word in says):
        print(f"FAILED: {what}: exit code {done.returncode}\n{told}")
        fails += 1


with tempfile.TemporaryDirectory() as build:
    commands = []
    for name, text in SOURCES.items():
        source = os.path.join(build, name)
        output = f"libexport/CMakeFiles/exg.dir/{name}.o"
        for path in (source, os.path.join(build, output)):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(source, "w") as out:
            out.write(text)
        subprocess.run([CC, "-c", "-o", output, source], cwd=build, check=True)
        commands.append({"directory": build, "command": f"{CC} -o {output} -c {source}", "file": source})
    with open(os.path.join(build, "compile_commands.json"), "w") as out:
        json.dump(commands, out)
    expect("a circle that is not listed", build, "", True, "3 files", "a.c -> libexport/base/b.c: b")
    expect("one that is", build, REASON + RING, False, "circles: 1, of 3 of 5 files")
    expect("one with a member more", build, REASON + RING + "  libexport/base/e.c\n", True, "other members", "3 files")
    expect("one that is gone", build, REASON + RING + "circle two\n  libexport/base/d.c\n", True, "gone")
    expect("no reason", build, "circle\n" + RING, True, "circles.txt:1: write 'circle REASON'")
    expect("no circle", build, RING, True, "circles.txt:1: write 'circle REASON'")
    os.remove(os.path.join(build, "libexport/CMakeFiles/exg.dir/base/e.c.o"))
    expect("an object that is not there", build, REASON + RING, True, "not built", "e.c.o")
print(f"{fails} faults")
sys.exit(fails > 0)
