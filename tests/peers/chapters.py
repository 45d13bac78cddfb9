"""Runs tutorials/pytorch/NN_*.py and compares what each prints with the text of the chapter's program.

    tests/peers/chapters.py [07 11 ...]

Most print lines of the chapter: each has to be in its text, to the last digit. Chapters 7 and 9a have other
random numbers: as many parameters, and an accuracy within 2 points of the page's; losses within 0.03. Chapter 9
prints how often layers are called, those numbers in brackets. Chapters 11 and 14 to 17 print MB of parameters,
gradients and states of rank 0 after a step, which are those of the table of the same title, and 13 and 22 a
number of a line. That all ranks train as one process does, they check themselves.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def text_of(name):
    return (ROOT / "tutorials" / name).read_text()


def different_lines(name, printed):
    """Lines that are none of the chapter's."""
    lines = set(text_of(f"expected/{name}.txt").splitlines())
    return [f"not in the chapter: {line}" for line in printed if line not in lines]


def different_accuracy(name, printed):
    numbers = {key: float(re.search(rf"^{key}: ([0-9.]+)", "\n".join(printed), re.M)[1])
               for key in ("parameters", "Accuracy")}
    accuracy = float(re.findall(r"Accuracy: ([0-9.]+)%", text_of(f"full/{name}.txt"))[-1])
    wrong = []
    if numbers["parameters"] != 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10:
        wrong.append(f"{numbers['parameters']:.0f} parameters")
    if abs(numbers["Accuracy"] - accuracy) > 2:  # of 10,000 images; other initial values
        wrong.append(f"accuracy {numbers['Accuracy']}, in the chapter {accuracy}")
    return wrong


def different_cells(name, printed):
    """Lines "title: number" whose number is not that of rank 0 in any row of that title."""
    text = text_of(f"expected/{name}.txt")
    wrong = []
    for line in printed:
        title, number = line.split(": ")
        found = re.findall(rf"^ *{re.escape(title)} +([0-9]+)", text, re.M)
        if number not in found:
            wrong.append(f"{line}, in the chapter {found}")
    return wrong


def different_bytes(name, printed):
    """Lines "title: number" whose number is none of the line of that title."""
    text = text_of(f"expected/{name}.txt")
    wrong = []
    for line in printed:
        title, number = line.split(": ")
        found = re.findall(rf"^ *{re.escape(title)} +(.*)", text, re.M)
        if not any(number in numbers.split() for numbers in found):
            wrong.append(f"{line}, in the chapter {found}")
    return wrong


def different_memory(name, printed):
    """Lines "title: MB MB MB" that are not the row after the step of the table with that title."""
    text = text_of(f"expected/{name}.txt")
    wrong = []
    for line in printed:
        title, held = line.split(": ")
        found = re.search(rf"^{re.escape(title)}, MB .*\n(?:  .*\n)*?  after the step +(.*)", text, re.M)
        if found is None or found[1].split()[:3] != held.split():
            wrong.append(f"{line}, in the chapter {found and found[1]}")
    return wrong


def different_calls(name, printed):
    """Lines "n: calls ..." that are not the numbers in brackets of the row n."""
    text = text_of(f"expected/{name}.txt")
    wrong = []
    for line in printed:
        n, calls = line.split(": ")
        row = re.search(rf"^ *{n} .*\(.*", text, re.M)
        if row is None or re.findall(r"\( *([0-9]+)\)", row[0]) != calls.split():
            wrong.append(f"{line}, in the chapter {row and row[0]}")
    return wrong


def different_losses(name, printed):
    """Lines "title: loss" that are further from the last loss of the row of that title than 0.03."""
    text = text_of(f"expected/{name}.txt")
    wrong = []
    for line in printed:
        title, loss = line.split(": ")
        row = re.search(rf"^ *{re.escape(title)}  +[0-9.]+ +([0-9.]+)", text, re.M)
        if row is None or abs(float(row[1]) - float(loss)) > 0.03:  # other initial values
            wrong.append(f"{line}, in the chapter {row and row[1]}")
    return wrong


COMPARE = {"07": different_accuracy, "09": different_calls, "09a": different_losses,
           "13": different_cells, "11": different_memory, "14": different_memory,
           "15": different_memory, "16": different_memory, "17": different_memory, "22": different_bytes}


def main(chapters):
    failed = 0
    for program in sorted((ROOT / "tutorials/pytorch").glob("[0-9]*.py")):
        number = program.stem.split("_")[0]
        if chapters and number not in chapters:
            continue
        run = subprocess.run([sys.executable, program], stdout=subprocess.PIPE, text=True)
        printed = run.stdout.splitlines()
        wrong = [] if run.returncode == 0 and printed else [f"exit status {run.returncode}, {len(printed)} lines"]
        wrong = wrong or COMPARE.get(number, different_lines)(program.stem, printed)
        print(f"{program.stem}: {len(printed)} lines " + ("as in the chapter" if not wrong else "DIFFER"))
        for line in wrong:
            print(f"    {line}")
        failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
