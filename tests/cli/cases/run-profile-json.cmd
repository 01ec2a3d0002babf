exg run fixtures/mlp.pt2 --threads 1 --profile --json | sed -e 's/"outputs": .*, "profile"/"profile"/' -e 's/, "operators".*/}/' -e 's/: [0-9.][0-9.e-]*/: 0/g'
