"""What becomes of a group's sequences after a step: choices part, beams continue their parents, or they wait."""

from __future__ import annotations

from engine.admission import Admission
from engine.memory import KVMemory
from engine.sequences import Group, KVSequence


class Forks:
    """Forks sequences of groups that have run. Where there is no room for a fork, it waits and is run again later."""

    def __init__(self, memory: KVMemory, admission: Admission) -> None:
        self._memory = memory
        self._admission = admission

    def part_choices(self, group: Group, going_on: list[tuple[int, int]]) -> None:
        """Continue the choices of a group that have not ended, each with its token, as groups of their own.

        Args:
            group: of choices, running.
            going_on: (choice, new token), ascending. The first one keeps the group and its sequence.
        """
        state = group.state
        if not going_on:
            state.groups.remove(group)
            self._admission.drop(group)
            return
        sequence = group.sequences[0]
        first, *others = going_on
        group.choices = [first[0]]
        group.order = (state.arrival, first[0])
        for choice, token_id in others:
            tokens = [*sequence.tokens, token_id]
            child = self._memory.fork(sequence, tokens)
            fork = Group(state, (state.arrival, choice), [child or state.prompt_sequence()], [choice])
            state.groups.append(fork)
            if child is not None:
                self._admission.join(fork)
            else:
                fork.sequences[0].tokens = tokens
                self._admission.enter(fork)
        sequence.tokens.append(first[1])

    def part_beams(self, group: Group, parents: list[int], new_tokens: list[int]) -> None:
        """Continue the beams ``parents`` (indices of the group's sequences) with one token each, in this order."""
        before = group.sequences
        tokens = [[*before[parent].tokens, token_id] for parent, token_id in zip(parents, new_tokens, strict=True)]
        living = set(parents)
        dead = [sequence for index, sequence in enumerate(before) if index not in living]
        heirs: dict[int, int] = {}
        for place, parent in enumerate(parents):
            heirs.setdefault(parent, place)
        after: list[KVSequence | None] = [None] * len(parents)
        for place, parent in enumerate(parents):
            if heirs[parent] != place:
                after[place] = (
                    self._memory.replace(dead.pop(), before[parent], tokens[place])
                    if dead
                    else self._memory.fork(before[parent], tokens[place], group.reserve_all)
                )
        for sequence in dead:
            self._memory.release(sequence)
        # Only now: the children have been copied from the parents as these were.
        for parent, place in heirs.items():
            before[parent].tokens = tokens[place]
            after[place] = before[parent]
        group.sequences = [sequence for sequence in after if sequence is not None]
        if len(group.sequences) < len(parents):
            self._wait(group, tokens)

    def resume_beams(self, group: Group) -> None:
        """Take preempted beams up again, whose prompt has been run anew; younger groups give way.

        Else those would keep what they got while the prompt ran, which may be too much for the beams each time, and
        get no further themselves where a step has no room for more than that prompt.
        """
        tokens, group.resume = group.resume, None
        assert tokens is not None
        prompt = group.sequences[0]
        for beam in tokens[1:]:
            while (child := self._memory.fork(prompt, beam, group.reserve_all)) is None:
                if not self._admission.make_way(group):
                    break
            if child is None:
                break
            group.sequences.append(child)
        prompt.tokens = tokens[0]
        if len(group.sequences) < len(tokens) or not all(self._secured(group, each) for each in group.sequences):
            self._wait(group, tokens)

    def _secured(self, group: Group, sequence: KVSequence) -> bool:
        while not self._memory.secure(sequence):
            if not self._admission.make_way(group):
                return False
        return True

    def _wait(self, group: Group, tokens: list[list[int]]) -> None:
        """There is no room for all beams: all of them wait, and come back with all the memory they can need."""
        group.resume = tokens
        group.reserve_all = True
        self._admission.preempt(group)
