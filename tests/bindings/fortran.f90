! fortran.f90 - the module of Fortran: PyTorch's answer for PyTorch's inputs, sections of arrays, and faults.
!   fortran MODEL DATA      DATA has x, row by row, then the answer
program test_fortran
  use exg
  use, intrinsic :: iso_c_binding
  implicit none
  type(exg_model) :: model
  type(exg_fault) :: fault
  real(c_float) :: wide(6, 16), x(3, 8), y(3, 4), want(3, 4), wrong(4, 3)
  real(c_double) :: double(3, 8)
  character(len=512) :: path, data
  integer :: i, unit

  call get_command_argument(1, path)
  call get_command_argument(2, data)
  open (newunit=unit, file=trim(data), action="read")
  read (unit, *) (x(i, :), i=1, 3)
  read (unit, *) (want(i, :), i=1, 3)
  close (unit)

  call exg_run(model, fault)
  call expect("ARG-001")
  call exg_open(model, "none.pt2", fault)
  call expect("IO-OPEN")
  call exg_open(model, path, fault, threads=1)
  call expect("")
  call exg_run(model, fault)
  call expect("INP-002")

  call exg_input(model, "x", x, fault)
  call expect("")
  call exg_run(model, fault)
  call expect("")
  if (any(exg_output_shape(model, 1) /= [3_c_int64_t, 4_c_int64_t])) error stop "another shape"
  if (any(exg_output_shape(model, 2) /= [-1_c_int64_t])) error stop "a second output"
  call exg_output(model, 1, y, fault)
  call expect("")
  if (any(abs(y - want) > 1e-5)) error stop "another answer"

  wide = -1
  wide(1:6:2, 16:2:-2) = x
  call exg_input(model, "x", wide(1:6:2, 16:2:-2), fault)
  call expect("")
  call exg_run(model, fault)
  call expect("")
  wide = 0
  call exg_output(model, 1, wide(2:6:2, 1:4), fault)
  call expect("")
  if (any(abs(wide(2:6:2, 1:4) - want) > 1e-5) .or. any(wide(1:5:2, :) /= 0)) error stop "another answer of sections"

  call exg_output(model, 1, wrong, fault)
  call expect("RUN-003")
  call exg_output(model, 2, y, fault)
  call expect("RUN-002")
  call exg_output(model, 0, y, fault)
  call expect("RUN-002")
  call exg_input(model, "x", x(:, 1:7), fault)
  call expect("")
  call exg_run(model, fault)
  call expect("INP-004")
  double = x
  call exg_input(model, "x", double, fault)
  call exg_run(model, fault)
  call expect("INP-003")
  call exg_input(model, "x", x, fault)
  call exg_input(model, "none", x, fault)
  call expect("INP-001")
  call exg_run(model, fault)
  call expect("")

  call exg_open(model, path, fault, device="none")
  call expect("DEV-001")
  call exg_open(model, path, fault, device="strict")
  call expect("")
  call exg_input(model, "x", x, fault)
  call exg_run(model, fault)
  y = 0
  call exg_output(model, 1, y, fault)
  call expect("")
  if (any(abs(y - want) > 1e-5)) error stop "another answer of a device"
  call exg_close(model)
  call exg_close(model)
  print "(a)", "right"

contains

  subroutine expect(code)
    character(len=*), intent(in) :: code

    if (code == "") then
      if (fault%status /= 0) error stop "fault " // fault%code // ": " // fault%message
    else if (fault%status == 0) then
      error stop "no fault, " // code // " was expected"
    else if (fault%code /= code) then
      error stop "fault " // fault%code // ", not " // code // ": " // fault%message
    end if
  end subroutine expect

end program test_fortran
