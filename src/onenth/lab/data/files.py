"""Text files as streams of lines: plain or compressed, strictly UTF-8, whole or refused.

An archive is one stream of its format or several, after each of which there may be zero bytes as padding.
What else follows is a problem, and so is a stream that stops early.
"""

import codecs
import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from onenth.lab.errors import Problem

ARCHIVES = (".xz", ".gz", ".zst")
_CHUNK = 1 << 16


def lines(path: Path) -> Iterator[str]:
    r"""The lines of a text, without their ends, which are \n or \r\n; a byte order mark of UTF-8 is dropped.

    The endings .xz, .gz and .zst are decompressed on the way. A file that cannot be read, is empty, damaged
    or not UTF-8 raises a `Problem` where the reading comes to it.

    Example:
        >>> import gzip, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "two.txt.gz"
        >>> _ = path.write_bytes(gzip.compress(b"the keys\r\nthe key"))
        >>> list(lines(path))
        ['the keys', 'the key']
    """
    number = 0
    for number, line in enumerate(_split(_contents(path)), 1):
        if number == 1:
            if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise Problem.at(path, 1, "this is UTF-16", "convert it with iconv -f UTF-16 -t UTF-8")
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            what = f"byte {error.start + 1} of the line, 0x{line[error.start]:02x}, is not UTF-8"
            remedy = "correct it, or convert the whole, as in iconv -f WINDOWS-1252 -t UTF-8"
            raise Problem.at(path, number, what, remedy) from None
        if "\0" in text:
            raise Problem.at(path, number, f"character {text.index(chr(0)) + 1} is NUL, which no text has",
                             "remove it, or fetch the file again")  # fmt: skip
        yield text.removesuffix("\r")
    if not number:
        raise Problem.at(path, None, "the file is empty", "fetch it again")


def find(folder: Path, *names: str) -> Path | None:
    """The first of the names that the folder holds, plain or as .xz, .gz or .zst; None if it holds none."""
    if not folder.is_dir():
        raise Problem.at(folder, None, "there is no such folder", "name the folder of the files")
    for name in names:
        there = [path for ending in ("", *ARCHIVES) if (path := folder / (name + ending)).exists()]
        if len(there) > 1:
            raise Problem.at(folder, None, f"{' and '.join(path.name for path in there)} are both there",
                             "keep the one that is meant")  # fmt: skip
        if there:
            return there[0]
    return None


def digest(path: Path) -> str:
    """SHA-256 of the file's bytes as they are stored, in hexadecimal."""
    digest = hashlib.sha256()
    with _opened(path) as file:
        for chunk in iter(lambda: file.read(_CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


def _split(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of a stream, each without its newline; the last may lack one."""
    open_line: list[bytes] = []
    for chunk in chunks:
        whole, newline, rest = chunk.rpartition(b"\n")
        if newline:
            yield from b"".join((*open_line, whole)).split(b"\n")
            open_line.clear()
        if rest:
            open_line.append(rest)
    if open_line:
        yield b"".join(open_line)


def _contents(path: Path) -> Iterator[bytes]:
    with _opened(path) as file:
        chunks = iter(lambda: file.read(_CHUNK), b"")
        yield from _decompressed(path, chunks) if path.suffix in ARCHIVES else chunks


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise Problem.at(path, None, "there is no such file", "check the name") from None
    except IsADirectoryError:
        raise Problem.at(path, None, "this is a folder", "name a file in it") from None
    except PermissionError:
        raise Problem.at(path, None, "there is no permission to read it", f"chmod u+r {path}") from None
    except OSError as error:
        raise Problem.at(path, None, f"it cannot be read ({error.strerror or error})",
                         "check the path and the disk") from error  # fmt: skip


def _decompressed(path: Path, chunks: Iterator[bytes]) -> Iterator[bytes]:
    make, refusal, tool = _format(path)
    stream, streams = None, 0
    try:
        for chunk in chunks:
            rest = chunk
            while rest:
                if stream is None:
                    rest = rest.lstrip(b"\0") if streams else rest
                    if not rest:
                        break
                    stream, streams = make(), streams + 1
                if text := stream.decompress(rest):
                    yield text
                rest = b""
                if stream.eof:
                    rest, stream = stream.unused_data, None
    except refusal as error:
        what = "this is damaged or" if streams == 1 else "what follows its end is"
        raise Problem.at(path, None, f"{what} no {path.suffix} archive ({error})",
                         f"fetch or pack it again, and test it with {tool} -t") from None  # fmt: skip
    if stream is not None:
        raise Problem.at(path, None, f"this {path.suffix} archive stops before its end", "fetch it again")


def _format(path: Path) -> tuple[Callable[[], Any], type[Exception], str]:
    """What makes a decompressor of one stream, what that raises, and the tool that tests an archive."""
    if path.suffix == ".xz":
        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), lzma.LZMAError, "xz"
    if path.suffix == ".gz":
        return lambda: zlib.decompressobj(16 + zlib.MAX_WBITS), zlib.error, "gzip"
    try:
        import zstandard
    except ImportError:
        raise Problem.at(path, None, "reading .zst needs a package", "pip install zstandard") from None
    largest = 1 << 31  # the window of zstd --ultra --long=31
    return (lambda: zstandard.ZstdDecompressor(max_window_size=largest).decompressobj(), zstandard.ZstdError,
            "zstd")  # fmt: skip
