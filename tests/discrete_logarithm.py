"""Where on the generator's cycle a given draw is, and so which matrix begins by it.

A step of the generator is a multiplication by x in GF(2)[x] modulo its characteristic polynomial:
the place of a state is a discrete logarithm in a field of 2^64 elements. The order of its group,
2^64 - 1, is a product of small primes: Pohlig and Hellman (1978) take the logarithm modulo each of
them, by baby and giant steps, and join them by the Chinese remainder theorem.
"""

import functools
import math

import reference

POLYNOMIAL = 0x1_0018B73AA7CC9B71
PRIMES = (3, 5, 17, 257, 641, 65537, 6700417)  # their product is 2^64 - 1
INVERSE_MULTIPLIER = pow(reference.MULTIPLIER, -1, 2**64)


def position_of(draw):
    """The position of the matrix whose draw 0 this is, for any draw but 0, which does not exist."""
    element = _field_element(draw * INVERSE_MULTIPLIER & reference.MASK)
    place = 0
    for prime in PRIMES:
        cofactor = reference.PERIOD // prime
        remainder = _logarithm(prime, _power(element, cofactor))
        place += remainder * cofactor * pow(cofactor, -1, prime)
    return (place - 1) % reference.PERIOD  # draw t is that of the state after t + 1 steps


def _multiply(a, b):
    product = 0
    while b:
        if b & 1:
            product ^= a
        b >>= 1
        a <<= 1
        if a >> 64:
            a ^= POLYNOMIAL
    return product


def _power(a, exponent):
    result = 1
    while exponent:
        if exponent & 1:
            result = _multiply(result, a)
        exponent >>= 1
        a = _multiply(a, a)
    return result


def _logarithm(prime, element):
    """The k < prime of element = x^(k (2^64 - 1) / prime)."""
    baby_steps, giant_step = _baby_steps(prime)
    giant_steps = 0
    while element not in baby_steps:
        element = _multiply(element, giant_step)
        giant_steps += 1
    return giant_steps * len(baby_steps) + baby_steps[element]


@functools.cache
def _baby_steps(prime):
    """The first powers of the root of unity of this order, and the next one's inverse."""
    root = _power(2, reference.PERIOD // prime)  # 2 is the polynomial x
    count = math.isqrt(16 * prime)  # giant steps are taken for every draw, baby steps once
    powers, power = {}, 1
    for k in range(min(prime, count)):
        powers[power] = k
        power = _multiply(power, root)
    return powers, _power(power, prime - 1)


def _field_element(state):
    """The polynomial in the step that takes START to the state."""
    element = 0
    for bit, (vector, combination) in _echelon().items():
        if state >> bit & 1:
            state ^= vector
            element ^= combination
    return element


@functools.cache
def _echelon():
    """Sums of START after 0..63 steps, each with a top bit of its own, from the highest on."""
    rows = {}
    state = reference.START
    for steps in range(64):
        vector, combination = state, 1 << steps
        while vector.bit_length() - 1 in rows:
            other, its_combination = rows[vector.bit_length() - 1]
            vector ^= other
            combination ^= its_combination
        rows[vector.bit_length() - 1] = (vector, combination)
        state = reference.step(state)
    return dict(sorted(rows.items(), reverse=True))
