for program in many constants; do exg compare fixtures/$program.pt2 --with device=strict; done
