! first.f90 - first.c in Fortran: a program is opened, checked, and run on zeros.
program first
  use exg
  implicit none
  type(exg_model) :: model
  real :: x(3, 8), y(3, 4)
  character(len=256) :: path

  x = 0
  call get_command_argument(1, path)
  call exg_open(model, path)
  call exg_input(model, "x", x)
  call exg_run(model)
  call exg_output(model, 1, y)
  print "(f8.6)", y(1, 1)
  call exg_close(model)
end program first
