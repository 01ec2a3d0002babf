! exg.f90 - programs saved by torch.export, from Fortran: open, give inputs, run, take outputs.
!
!   type(exg_model) :: model
!   type(exg_fault) :: fault
!   call exg_open(model, "model.pt2", fault)
!   call exg_input(model, "x", x, fault)        ! x(i, j) is x[i, j] of Python, from 1 on
!   call exg_run(model, fault)
!   call exg_output(model, 1, y, fault)         ! y has the output's shape and kind
!   call exg_close(model)
!
! An array is of any rank up to 15, and may be a section: real(4), real(8), complex, integer(1) to integer(8),
! logical(1). Indices mean what they mean in Python, so elements are copied, from columns to rows and back.
! fault%status is 0 where all went well; without the argument a fault ends the program with its message.
! One call at a time in a model; models are independent.
module exg
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: exg_model, exg_fault, exg_open, exg_input, exg_run, exg_output, exg_output_shape, exg_close

  type :: exg_model
    private
    type(c_ptr) :: handle = c_null_ptr
  end type exg_model

  type :: exg_fault
    integer :: status = 0                       ! of exg/status.h
    character(len=:), allocatable :: code       ! stable: "INP-004"
    character(len=:), allocatable :: message
    character(len=:), allocatable :: where
    character(len=:), allocatable :: fix
  end type exg_fault

  ! exg/status.h
  type, bind(c) :: c_error
    integer(c_int) :: status
    character(kind=c_char) :: code(24), message(400), where(200), fix(200), source(200)
    integer(c_int64_t) :: offset
    type(c_ptr) :: source_file
    integer(c_int) :: source_line
  end type c_error

  interface
    integer(c_int) function c_open(path, threads, device, model, err) bind(c, name="exg_fortran_open")
      import :: c_int, c_char, c_ptr, c_error
      character(kind=c_char), intent(in) :: path(*), device(*)
      integer(c_int), value :: threads
      type(c_ptr), intent(out) :: model
      type(c_error), intent(out) :: err
    end function c_open
    integer(c_int) function c_input(model, name, array, err) bind(c, name="exg_fortran_input")
      import :: c_int, c_char, c_ptr, c_error
      type(c_ptr), value :: model
      character(kind=c_char), intent(in) :: name(*)
      type(*), dimension(..), intent(in) :: array
      type(c_error), intent(out) :: err
    end function c_input
    integer(c_int) function c_run(model, err) bind(c, name="exg_fortran_run")
      import :: c_int, c_ptr, c_error
      type(c_ptr), value :: model
      type(c_error), intent(out) :: err
    end function c_run
    integer(c_int) function c_output(model, index, array, err) bind(c, name="exg_fortran_output")
      import :: c_int, c_ptr, c_error
      type(c_ptr), value :: model
      integer(c_int), value :: index
      type(*), dimension(..), intent(inout) :: array
      type(c_error), intent(out) :: err
    end function c_output
    integer(c_int) function c_output_shape(model, index, sizes) bind(c, name="exg_fortran_output_shape")
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: model
      integer(c_int), value :: index
      integer(c_int64_t), intent(out) :: sizes(16)
    end function c_output_shape
    subroutine c_close(model) bind(c, name="exg_fortran_close")
      import :: c_ptr
      type(c_ptr), value :: model
    end subroutine c_close
  end interface

contains

  pure function text(chars) result(string)
    character(kind=c_char), intent(in) :: chars(:)
    character(len=:), allocatable :: string
    integer :: i, length

    length = 0
    do i = 1, size(chars)
      if (chars(i) == c_null_char) exit
      length = i
    end do
    allocate (character(len=length) :: string)
    do i = 1, length
      string(i:i) = chars(i)
    end do
  end function text

  subroutine told(status, err, fault)
    integer(c_int), intent(in) :: status
    type(c_error), intent(in) :: err
    type(exg_fault), intent(out), optional :: fault
    type(exg_fault) :: own

    own%status = int(status)
    if (status /= 0) then
      own%code = text(err%code)
      own%message = text(err%message)
      own%where = text(err%where)
      own%fix = text(err%fix)
    end if
    if (present(fault)) then
      fault = own
    else if (status /= 0) then
      error stop "exg: " // own%code // ": " // own%message
    end if
  end subroutine told

  ! Opens a .pt2, .exg or early .json file, verifies it and makes it ready to run. threads: 0, or left out: one a core.
  ! device: "cuda" or "cuda:1", as exg run --device takes it; left out: the host. Arrays stay the host's.
  subroutine exg_open(model, path, fault, threads, device)
    type(exg_model), intent(inout) :: model
    character(len=*), intent(in) :: path
    type(exg_fault), intent(out), optional :: fault
    integer, intent(in), optional :: threads
    character(len=*), intent(in), optional :: device
    character(len=:), allocatable :: kind
    type(c_error) :: err
    integer(c_int) :: status, count

    call exg_close(model)
    count = 0
    if (present(threads)) count = int(threads, c_int)
    kind = ""
    if (present(device)) kind = trim(device)
    status = c_open(trim(path) // c_null_char, count, kind // c_null_char, model%handle, err)
    call told(status, err, fault)
  end subroutine exg_open

  ! The input of this name, copied; it stays till it is given anew.
  subroutine exg_input(model, name, array, fault)
    type(exg_model), intent(in) :: model
    character(len=*), intent(in) :: name
    type(*), dimension(..), intent(in) :: array
    type(exg_fault), intent(out), optional :: fault
    type(c_error) :: err
    integer(c_int) :: status

    status = c_input(model%handle, trim(name) // c_null_char, array, err)
    call told(status, err, fault)
  end subroutine exg_input

  subroutine exg_run(model, fault)
    type(exg_model), intent(in) :: model
    type(exg_fault), intent(out), optional :: fault
    type(c_error) :: err
    integer(c_int) :: status

    status = c_run(model%handle, err)
    call told(status, err, fault)
  end subroutine exg_run

  ! Output `index`, from 1 on, of the last run, into an array of its shape and kind.
  subroutine exg_output(model, index, array, fault)
    type(exg_model), intent(in) :: model
    integer, intent(in) :: index
    type(*), dimension(..), intent(inout) :: array
    type(exg_fault), intent(out), optional :: fault
    type(c_error) :: err
    integer(c_int) :: status

    status = c_output(model%handle, int(index, c_int), array, err)
    call told(status, err, fault)
  end subroutine exg_output

  ! Its sizes; one of -1 where there is no such tensor.
  function exg_output_shape(model, index) result(sizes)
    type(exg_model), intent(in) :: model
    integer, intent(in) :: index
    integer(c_int64_t), allocatable :: sizes(:)
    integer(c_int64_t) :: all_sizes(16)
    integer(c_int) :: rank

    rank = c_output_shape(model%handle, int(index, c_int), all_sizes)
    if (rank < 0) then
      sizes = [-1_c_int64_t]
    else
      sizes = all_sizes(1:rank)
    end if
  end function exg_output_shape

  subroutine exg_close(model)
    type(exg_model), intent(inout) :: model

    call c_close(model%handle)
    model%handle = c_null_ptr
  end subroutine exg_close

end module exg
