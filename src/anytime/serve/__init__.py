"""A server that answers in time: under load its answers are less exact rather than late.

``anytime serve model.anytime`` starts it. ``settings`` says what it can be told, ``workers`` starts its processes, ``app`` takes
requests (``protocol``, ``plain`` and ``rows`` read them), ``engine`` decides how far there is time to go, and ``board`` counts.
``policy``, ``pace`` and ``simulate`` need none of the packages that serving needs.
"""
