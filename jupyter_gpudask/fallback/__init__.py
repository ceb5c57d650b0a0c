"""Operations that CuPy or cuDF lack, computed on the host, block by block, on the worker that has the block."""
