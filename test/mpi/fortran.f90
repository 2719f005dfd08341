! Sums, a broadcast and MPI_IN_PLACE from Fortran; run with the shim preloaded. Stops with 1 when a value is wrong.
program fortran_test
  use mpi
  implicit none
  integer, parameter :: n = 1000
  integer :: rank, ranks, ierr, i, k, wrong
  double precision :: a(n), b(n)
  integer :: c(n)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  wrong = 0
  do k = 1, 20
    do i = 1, n
      a(i) = dble(rank + i)
    end do
    call MPI_Allreduce(a, b, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    call MPI_Allreduce(MPI_IN_PLACE, a, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    do i = 1, n
      if (b(i) /= dble(ranks*i + ranks*(ranks - 1)/2) .or. a(i) /= b(i)) wrong = wrong + 1
    end do
  end do
  c = rank
  call MPI_Bcast(c, n, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, ierr)
  if (any(c /= ranks - 1)) wrong = wrong + 1
  call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_Finalize(ierr)
  if (wrong /= 0) stop 1
end program
