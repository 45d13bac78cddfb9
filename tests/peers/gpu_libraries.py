"""What tests/run --gpu takes of this Python's PyTorch where the machine has none: shell assignments.

    gpu_libraries.py CUDA_MAJOR

HERO_NCCL, HERO_CUDNN and HERO_CUBLASLT name a library that the loader does not find and that lies in
a package `nvidia`; pytorch_headers lists the folders of those packages' headers.
"""
import ctypes
import os
import shlex
import sys


def loads(name):
    """Whether the backend finds it by itself."""
    for path in (name, "/usr/local/cuda/lib64/" + name):
        try:
            ctypes.CDLL(path)
            return True
        except OSError:
            pass
    return False


def main():
    major = sys.argv[1]
    try:
        import nvidia  # a namespace: each library is a package of its own
    except ImportError:
        return
    headers = []
    for variable, library, folders in (
            ("HERO_NCCL", "libnccl.so.2", ["nccl"]),
            ("HERO_CUDNN", "libcudnn.so.9", ["cudnn"]),
            ("HERO_CUBLASLT", f"libcublasLt.so.{major}", [f"cu{major}", "cublas"])):
        found = [os.path.join(top, folder) for top in nvidia.__path__ for folder in folders
                 if os.path.exists(os.path.join(top, folder, "lib", library))]
        if not found:
            continue
        if variable not in os.environ and not loads(library):
            print(f"export {variable}={shlex.quote(os.path.join(found[0], 'lib', library))}")
        if variable != "HERO_CUBLASLT":  # cuBLASLt's headers are the toolkit's
            headers.append(os.path.join(found[0], "include"))
    print(f"pytorch_headers={shlex.quote(':'.join(headers))}")


if __name__ == "__main__":
    main()
