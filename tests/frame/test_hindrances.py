"""What `appy.explain` says of a function as a whole."""

import numpy as np

import appy


def test_explain_names_what_keeps_a_loop_in_the_interpreter(capsys):
    def stepped(a, b, n):
        for t in range(n):
            if t % 2:
                while a[0] < 0:
                    print("step")
                    # pragma :=>parallel
                    a[:] = a + 1
        for x in [1, 2]:
            # pragma :=>parallel
            b[:] = b + x
        for _ in range(n):
            # pragma :=>parallel
            a[:] = a * b

    first = stepped.__code__.co_firstlineno
    compiled = appy.jit(stepped)
    compiled(np.ones(10), np.ones(10), 3)
    hindrances = appy.explain(compiled).hindrances
    assert [(h.line - first, h.at - first, h.text) for h in hindrances] == [
        (1, 4, "print('step')"),
        (3, 4, "print('step')"),
        (7, 7, "for x in [1, 2]:"),
    ]
    said = capsys.readouterr().out
    assert f"the loop at line {first + 1} stays in the interpreter" in said
    assert f"line {first + 4}, `print('step')`, is not an annotated statement" in said
    assert "it is no `while` loop and none over `range`" in said
    assert f"the loop at line {first + 10} stays" not in said
