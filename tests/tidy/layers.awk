# layers.awk - checks every #include against layers.txt.
#
#   awk [-v whole=1] -f layers.awk layers.txt FILE...
#
# FILE is a path from the source root; `whole` says these are all of them, so that an
# exception nobody needs is a fault too. Prints a line a fault; exit code 1 when any.

function library_of(room) { sub(/\/.*/, "", room); return room }

# The room of a path: libexport/base/map.h -> libexport/base; a file right below its library is
# the library itself.
function room_of(path,    part, count) {
    count = split(path, part, "/")
    if (part[2] == "include") {
        return public_room(part[count])
    }
    if (part[1] == "cli") {
        return "cli/cli"
    }
    if (count == 2) {
        return part[1]
    }
    return part[1] "/" part[2]
}

function public_room(name) {
    sub(/\.(h|def)$/, "", name)
    return name in header ? header[name] : "unknown/" name
}

function may(from, to,    a, b) {
    if (from == to || ((from, to) in allowed)) {
        used[from, to] = 1
        return 1
    }
    a = library_of(from)
    b = library_of(to)
    if (a != b) {
        return (a, b) in below
    }
    return place[to] > 0 && place[from] > 0 && place[to] < place[from]
}

FNR == 1 { file++ }

file == 1 && $1 == "order" {
    for (i = 3; i <= NF; i++) {
        place[$2 "/" $i] = i
    }
}
file == 1 && $1 == "below" {
    for (i = 3; i <= NF; i++) {
        below[$2, $i] = 1
    }
}
file == 1 && $1 == "takes" {
    for (i = 3; i <= NF; i++) {
        takes[$2, $i] = 1
    }
}
file == 1 && $1 == "header" { header[$2] = $3 }
file == 1 && $1 == "allow" {
    allowed[$2, $3] = 1
    if (NF < 4) {
        print FILENAME ":" FNR ": an exception without a reason"
        faults++
    }
}

file > 1 && /^[ \t]*#[ \t]*include[ \t]*["<](libexport|libexec|cli|tests|exg)\// {
    target = $0
    sub(/^[^"<]*["<]/, "", target)
    sub(/[">].*/, "", target)
    from = room_of(FILENAME)
    to = target ~ /^exg\// ? public_room(substr(target, 5)) : room_of(target)
    # Public headers of a library may gather those of the same library.
    if (FILENAME ~ /\/include\// && library_of(from) == library_of(to)) {
        next
    }
    # Of a library below, by its private headers: the listed ones, or all of a listed room.
    if (target !~ /^exg\// && library_of(from) != library_of(to)) {
        taken[library_of(from), (library_of(from), to) in takes ? to : target] = 1
        if (!((library_of(from), target) in takes) && !((library_of(from), to) in takes)) {
            print FILENAME ":" FNR ": " library_of(from) " takes " target ", which layers.txt does not list"
            faults++
        }
    }
    if (!may(from, to)) {
        print FILENAME ":" FNR ": " from " includes " to " (" target ")"
        faults++
    }
}

END {
    for (pair in allowed) {
        if (whole && !(pair in used)) {
            split(pair, part, SUBSEP)
            print "layers.txt: nobody needs: allow " part[1] " " part[2]
            faults++
        }
    }
    for (pair in takes) {
        if (whole && !(pair in taken)) {
            split(pair, part, SUBSEP)
            print "layers.txt: nobody needs: takes " part[1] " " part[2]
            faults++
        }
    }
    exit faults > 0
}
