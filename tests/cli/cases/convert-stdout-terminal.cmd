NO_COLOR=1 python3 -c 'import os, pty, sys; status = pty.spawn(sys.argv[1:]); sys.exit(os.waitstatus_to_exitcode(status))' "$exe" convert fixtures/mlp.pt2 -.exg | tr -d '\r'; exit 1
