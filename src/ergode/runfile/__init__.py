"""Run files: a model, an engine, its options and its outputs in one TOML file.

::

    engine = "epidemics"
    title = "SEIR among physicists"      # optional; written above the figure

    [model]
    kind = "seir"                        # or si, sis, sir, sirs, seirs, seird, seair
    transmission_rate = 0.25
    latent = { distribution = "log-normal", mean = 5, median = 4 }
    infectious = { distribution = "log-normal", mean = 7.5, median = 5 }

    [contacts]
    file = "ca-GrQc.txt"                 # relative to the run file; or generator = "erdos-renyi"

    [simulate]
    initial = { I = 10 }
    times = { start = 0, stop = 120, step = 1 }
    replicates = 200
    seed = 1

    [output]                             # both optional; default: the run file's folder
    dataset = "seir.nc"
    figure = "seir.png"

    [[interventions]]                    # any number; all optional
    kind = "isolation"                   # or vaccination, contact-tracing, testing, layer-closure
    compartment = "I"
    delay = 2
    start = { count = "cases", level = 5 }   # or a time

    [[importations]]
    compartment = "I"
    rate = 0.1

    [layer_factors.school]               # a calendar of a layer
    changes = [0, 5]
    factors = [1, 0]
    period = 7

The table ``[parameters]`` has the values of a sweep. Numbers of ``[model]`` and ``initial`` may
then be names of parameters.

The keys of a table are the arguments of the object that it describes: ``[model]`` of the method of
`CompartmentModel` that `kind` names, ``[contacts]`` of `ergode.read_contacts` or of the generator,
``[simulate]`` of `ergode.epidemics.simulate`, a distribution of its class. Any other key is an
error.
"""
